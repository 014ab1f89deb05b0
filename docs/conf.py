"""How Sphinx makes a site of these pages: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torchprof_magic

project = "torchprof-magic"
author = "the torchprof-magic developers"
version = release = torchprof_magic.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
add_module_names = False

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "torchprof-magic"
# Everything is in the site: it loads nothing from elsewhere, and opens from a folder.
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
