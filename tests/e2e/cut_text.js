// Texts of a report that are cut: outside of what clips them, without an ellipsis or without the whole text on hover.
(root) => {
  // A name that is shortened in the middle is whole on hover, so that only its beginning is the same.
  const squashed = (text) => text.split("…")[0].replace(/\s+/g, "");
  const titlesOf = (element) => {
    const titles = [];
    for (let at = element; at !== null && at !== root; at = at.parentElement) titles.push(at.title);
    return titles.join(" ").replace(/\s+/g, "");
  };
  const isCut = (element, text, rects) => {
    const left = Math.min(...rects.map((rect) => rect.left));
    const right = Math.max(...rects.map((rect) => rect.right));
    const top = Math.min(...rects.map((rect) => rect.top));
    const bottom = Math.max(...rects.map((rect) => rect.bottom));
    for (let at = element; at !== null && at !== root.parentElement; at = at.parentElement) {
      const style = getComputedStyle(at);
      const box = at.getBoundingClientRect();
      const scrolls = ["auto", "scroll"].includes(style.overflowY);
      // What can be scrolled to is not cut.
      if (scrolls && (bottom > box.bottom || top < box.top)) return false;
      if (style.overflowY !== "visible" && (bottom > box.bottom + 3 || top < box.top - 3)) return true;
      if (style.overflowX === "visible" || (right <= box.right + 1 && left >= box.left - 1)) continue;
      return style.textOverflow !== "ellipsis" || !titlesOf(element).includes(squashed(text));
    }
    return false;
  };
  const cut = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    const text = node.textContent.trim();
    if (text === "" || element.closest(".tp-aloud, .tp-spoken") !== null) continue;
    // The machine is left out where it has no room: "About this run" has it.
    if (element.closest(".tp-machine:not(.tp-progress)") !== null) continue;
    if (getComputedStyle(element).visibility === "hidden") continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = Array.from(range.getClientRects()).filter(({ width, height }) => width > 0 && height > 0);
    if (rects.length > 0 && isCut(element, text, rects)) cut.push(`${element.className}: ${text}`);
  }
  return cut;
}
