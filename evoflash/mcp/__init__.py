"""The application as tools for programs that speak the Model Context Protocol, over stdio (docs/mcp.md).

A tool is one call of the application, and its answer the record's `as_dict()`. What compiles or runs kernels
works in a process of its own, so that it can be cancelled.

    answers        What the tools answer, for their output schemas
    processes      Starts the processes of tools, hears what they tell, and ends them with all that they
                   started
    served_folder  The one folder whose files a client may name, and the database of its searches
    server         The server
    tools          The tools that a client may call, each one call of the application
    work           The process in which one tool works
"""
