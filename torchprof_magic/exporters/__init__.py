"""Exporters: a report becomes a file for another program. ``EXPORTERS`` lists the formats."""

from torchprof_magic.exporters.formats import EXPORTERS, Exporter, Source, choose_exporter

__all__ = ["EXPORTERS", "Exporter", "Source", "choose_exporter"]
