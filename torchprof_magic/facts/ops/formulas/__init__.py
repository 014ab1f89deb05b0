"""What every op has to do: formulas of its operations and bytes, by the shapes and types of its inputs."""

from torchprof_magic.facts.ops.formulas.inputs import Inputs
from torchprof_magic.facts.ops.formulas.registry import ALL, COUNTED, formula_of, own, read_inputs, work_of
from torchprof_magic.facts.ops.formulas.work import Formula, Work

__all__ = ["ALL", "COUNTED", "Formula", "Inputs", "Work", "formula_of", "own", "read_inputs", "work_of"]
