"""What fills the memory of each device, from the blocks of a recording: who holds it, and what would lower its peak."""
