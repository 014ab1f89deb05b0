"""A trace goes in, one shape comes out; pure functions, one question a file."""
