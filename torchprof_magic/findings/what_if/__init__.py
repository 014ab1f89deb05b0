"""What a step would take if something were faster or gone, by the graph of the steps."""

from torchprof_magic.findings.what_if.asked import ask_what_if, faster_words
from torchprof_magic.findings.what_if.changes import Changes, as_several
from torchprof_magic.findings.what_if.result import WhatIf

__all__ = ["Changes", "WhatIf", "as_several", "ask_what_if", "faster_words"]
