"""`evoflash verify`: a claim about a kernel, of whomever, checked and timed again here.

command     the command's options
claim       what a row, a record or a launch.json says of a kernel
reading     from an id, a file, a folder or stdin to the claim
python_file the kernel inside of an exported Python file
around      what stands around a kernel, against what this evoflash writes there
finding     the same kernel taken up the ladder here
edited      an exported file whose kernel was edited, checked as it stands
verdict     confirmed, not confirmed, or not to be compared, and why
report      both sides beside one another, as a table or JSON
"""
