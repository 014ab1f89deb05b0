"""Tools for programs that read reports: a server of the Model Context Protocol (MCP), and tools of Jupyter's own."""
