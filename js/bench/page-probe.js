/** Runs in a measured page: when elements have been painted, the gaps between frames, and long tasks. */

// A block keeps the names from the page.
{
  const tasks = [];
  const observer = new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) {
      tasks.push({ start: startTime, ms: duration });
    }
  });
  observer.observe({ type: "longtask", buffered: true });

  let pressedAt = 0;
  let actedAt = 0;
  const noteInput = ({ type, timeStamp }) => {
    if (type === "pointerdown") pressedAt = timeStamp;
    if (actedAt === 0) actedAt = timeStamp;
  };
  for (const type of ["pointerdown", "wheel", "keydown"]) {
    addEventListener(type, noteInput, { capture: true, passive: true });
  }

  // A picture that no other follows for so long is the last one.
  const QUIET_MS = 200;
  let pictures = { canvas: null, last: 0, stop: () => {} };

  /** The time after the next frame was painted: its message is a task behind the painting. */
  const afterPaint = () =>
    new Promise((resolve) => {
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => resolve(performance.now());
        port2.postMessage(null);
      });
    });

  const until = async (holds) => {
    let now = await afterPaint();
    while (!holds()) now = await afterPaint();
    return now;
  };

  let times = [];
  let frame = 0;
  const tick = (time) => {
    times.push(time);
    frame = requestAnimationFrame(tick);
  };

  window.__probe = {
    /** Milliseconds from the start of the navigation until something has been painted. */
    sinceStart: (selector) => until(() => document.querySelector(selector) !== null),

    /** Milliseconds from the last press of the pointer until something has been painted in an element. */
    sincePress: async (root, selector) =>
      (await until(() => root.querySelector(selector) !== null)) - pressedAt,

    afterPaint,

    /** From now on, notes when a canvas is painted. */
    watchPictures(root, selector) {
      pictures.stop();
      const canvas = root.querySelector(selector);
      const watched = { canvas, last: 0, stop: () => painted.disconnect() };
      const painted = new MutationObserver(() => {
        watched.last = performance.now();
      });
      painted.observe(canvas, { attributeFilter: ["data-tp-painted"] });
      pictures = watched;
      actedAt = 0;
    },

    /** Milliseconds from the first input to the last picture; a canvas that is busy waits for data. */
    async lastPicture() {
      const isBusy = () => pictures.canvas.closest("[aria-busy='true']") !== null;
      await until(() => {
        const { last } = pictures;
        return last > 0 && !isBusy() && performance.now() - last > QUIET_MS;
      });
      pictures.stop();
      return pictures.last - actedAt;
    },

    startFrames() {
      times = [];
      frame = requestAnimationFrame(tick);
    },

    /** Milliseconds between the frames since the start. */
    stopFrames() {
      cancelAnimationFrame(frame);
      return times.slice(1).map((time, at) => time - times[at]);
    },

    /** The long tasks since the last call, in milliseconds. */
    takeLongTasks() {
      for (const { startTime, duration } of observer.takeRecords()) {
        tasks.push({ start: startTime, ms: duration });
      }
      return tasks.splice(0).map(({ ms }) => ms);
    },
  };
}
