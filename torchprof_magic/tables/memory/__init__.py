"""What fills the memory, who holds it, and what grows."""
