"""What the host did at every moment: nesting, states, phases, pieces of steps."""
