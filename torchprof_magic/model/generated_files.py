"""Files of code that torch.compile wrote, which belongs to the lines of the model and is nobody's own."""

# They are in a folder of Inductor's own, or in the one that TORCHINDUCTOR_CACHE_DIR names: then in a folder of two
# letters, and named by a hash in base 32 behind a c. Graphs that run as Python are in no file: their names are made up.
GENERATED = (
    r"[/\\]torchinductor_[^/\\]*[/\\]|[/\\][a-z2-7]{2}[/\\]c[a-z2-7]{40,}\.py$|"
    r"^fx_generated__[0-9A-Za-z]+\.py$|^<eval_with_key>"
)
