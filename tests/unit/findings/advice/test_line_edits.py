"""Keywords written into lines of many shapes; what is expected is written by hand."""

from __future__ import annotations

import pytest

from torchprof_magic.findings.advice import Edit
from torchprof_magic.findings.advice.line_edits import edited

FUSED = Edit(("AdamW",), "fused", "True")
WORKERS = Edit(("DataLoader",), "num_workers", "4", position=5)
NONE = Edit(("zero_grad",), "set_to_none", "True", position=0, is_here=True, only_given=True)
MOVE = Edit(("to", "cuda"), "non_blocking", "True", is_here=True, is_move=True)


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        (FUSED, "o = torch.optim.AdamW(model.parameters())", "o = torch.optim.AdamW(model.parameters(), fused=True)"),
        (FUSED, "o = AdamW(net.parameters(), lr=1e-3)  # slow",
         "o = AdamW(net.parameters(), lr=1e-3, fused=True)  # slow"),
        (FUSED, "o = AdamW(p, fused=False, lr=1)", "o = AdamW(p, fused=True, lr=1)"),
        (FUSED, "o = AdamW(p, fused = (None))", "o = AdamW(p, fused = (True))"),
        (FUSED, "o = AdamW(p,)", "o = AdamW(p, fused=True,)"),
        (FUSED, "o = AdamW((p))", "o = AdamW((p), fused=True)"),
        (FUSED, "o = AdamW([{'params': p, 'lr': f(1)}], lr=max(1, 2))",
         "o = AdamW([{'params': p, 'lr': f(1)}], lr=max(1, 2), fused=True)"),
        (FUSED, "o = AdamW(größe['ä, )'], lr=1) # ü)", "o = AdamW(größe['ä, )'], lr=1, fused=True) # ü)"),
        (FUSED, "a = 1; o = AdamW( p ); b = 2", "a = 1; o = AdamW( p, fused=True ); b = 2"),
        (FUSED, "o: Optimizer = AdamW(p)", "o: Optimizer = AdamW(p, fused=True)"),
        (FUSED, "fit(model, AdamW(p), loader)", "fit(model, AdamW(p, fused=True), loader)"),
        (FUSED, "self.o = torch.optim.AdamW(self.parameters(), **{})", None),
        (FUSED, "o = AdamW(*groups)", None),
        (FUSED, "o = AdamW(q for q in p)", None),
        (FUSED, "o = AdamW(p, fused=True)", None),
        (FUSED, "o = Adam(p)", None),
        (FUSED, "o, q = AdamW(a), AdamW(b)", None),
        (FUSED, "AdamW = 3", None),
        (FUSED, "o = AdamW(p", None),
        (FUSED, "# AdamW(p)", None),
        (WORKERS, "l = DataLoader(ds, batch_size=8)", "l = DataLoader(ds, batch_size=8, num_workers=4)"),
        (WORKERS, "l = DataLoader(ds, 8, num_workers=0, shuffle=True)",
         "l = DataLoader(ds, 8, num_workers=4, shuffle=True)"),
        (WORKERS, "l = DataLoader(ds, 8, True, None, None, 0)", "l = DataLoader(ds, 8, True, None, None, 4)"),
        (WORKERS, "for x, y in DataLoader(ds): pass", "for x, y in DataLoader(ds, num_workers=4): pass"),
        (WORKERS, "for x in tqdm(enumerate(DataLoader(ds, 8))): f(x)",
         "for x in tqdm(enumerate(DataLoader(ds, 8, num_workers=4))): f(x)"),
        (WORKERS, "l = DataLoader()", "l = DataLoader(num_workers=4)"),
        (NONE, "optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad(set_to_none=True)"),
        (NONE, "model.zero_grad(False)", "model.zero_grad(True)"),
        (NONE, "optimizer.zero_grad()", None),
        (NONE, "optimizer.zero_grad(keep)", "optimizer.zero_grad(True)"),
        (MOVE, "x = x.to(device)", "x = x.to(device, non_blocking=True)"),
        (MOVE, "x, y = x.to(device), y.to(device)",
         "x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)"),
        (MOVE, "x, y = x.cuda(), y.cuda(non_blocking=True)",
         "x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)"),
        (MOVE, "x = x.to(torch.float16).to('cuda')", "x = x.to(torch.float16).to('cuda', non_blocking=True)"),
        (MOVE, "x = x.to(device).to(device)", "x = x.to(device, non_blocking=True).to(device, non_blocking=True)"),
        (MOVE, "x = x.to(device=device, dtype=torch.half)",
         "x = x.to(device=device, dtype=torch.half, non_blocking=True)"),
        (MOVE, "x = x.to(memory_format=torch.channels_last)", None),
        (MOVE, "x = x.to(device, torch.half, False)", None),
        (MOVE, "x = to(device)", None),
        (MOVE, "if x.to(device).sum(): y.to(device)",
         "if x.to(device, non_blocking=True).sum(): y.to(device, non_blocking=True)"),
    ],
)  # fmt: skip
def test_a_keyword_is_written_into_the_call_of_a_line_or_nothing_is(edit: Edit, before: str, after: str | None) -> None:
    assert edited(before, 1, edit) == after


MANY_LINES = """\
%%torchprof --memory
loader = torch.utils.data.DataLoader(
    data,  # all of it
    batch_size=8,  # small )
    # shuffled:
    shuffle=True,
)
optimizer = (torch.optim
             .AdamW(model.parameters(),
                    lr=1e-3))
for x, y in loader:
    if x.ndim == 2:
        loss = model(
            x
              .to(device)
        ).sum()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("edit", "line", "before", "after"),
    [
        (WORKERS, 2, "    shuffle=True,\n", "    shuffle=True, num_workers=4,\n"),
        (WORKERS, 5, "    shuffle=True,\n", "    shuffle=True, num_workers=4,\n"),
        (WORKERS, 11, "    shuffle=True,\n", "    shuffle=True, num_workers=4,\n"),  # the loop names it
        (FUSED, 17, "lr=1e-3))\n", "lr=1e-3, fused=True))\n"),
        (MOVE, 13, ".to(device)\n", ".to(device, non_blocking=True)\n"),
    ],
)
def test_statements_of_several_lines_keep_their_comments_and_their_shape(
    edit: Edit, line: int, before: str, after: str
) -> None:
    assert edited(MANY_LINES, line, edit) == MANY_LINES.replace(before, after)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a = AdamW(p)\nb = AdamW(q)\nfor x in y:\n    b.step()", 4),  # the second
        ("b = Adam(p)\nself.b = AdamW(q)\nb.step()", 3),
        ("val = AdamW(p)\noptimizer.step()", 2),  # it is from another cell
        ("b = AdamW(p)\nb = AdamW(p)\nb.step()", 3),  # one of both
        ("fit(AdamW(p))\nb.step()", 2),
        ("b = AdamW(p)\nfor x in y:\n    fit(x)", 3),
        ("b = AdamW(q)\nfor x in enumerate(b):\n    fit(x)", 3),
    ],
)
def test_a_call_elsewhere_is_changed_only_where_the_line_names_what_it_makes(source: str, line: int) -> None:
    expected = source.replace("AdamW(q)", "AdamW(q, fused=True)")
    assert edited(source, line, FUSED) == (None if expected == source else expected)


def test_calls_that_are_meant_only_on_their_line_are_not_looked_for_elsewhere() -> None:
    assert edited("x = x.to(device)\nf(x)", 2, MOVE) is None


def test_calls_in_texts_with_braces_are_changed_exactly_or_not_at_all() -> None:
    """Python up to 3.11 does not say where in the text they are."""
    for text in ("s = f'{AdamW(p)}'", "s = f'ä {1} {AdamW(p)!r} {AdamW}'", 's = f"""\n{AdamW(p)}"""'):
        assert edited(text, 1, FUSED) in (None, text.replace("AdamW(p)", "AdamW(p, fused=True)"))


@pytest.mark.parametrize("source", ["x = (", "\0", "x = !ls\n", "x\ry", "(" * 5000])
def test_what_cannot_be_parsed_is_left_alone(source: str) -> None:
    assert edited(source, 1, FUSED) is None
