"""What a snapshot of the caching allocator holds, and what held the peak."""
