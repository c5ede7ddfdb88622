"""`evoflash check`: what a kernel does wrong, found by running it in the emulator under many schedules.

command            the command's options
subject            what is checked: a genome or a user's own kernel, and its launches
exported           the kernel of an exported file, edited or not
kernel_header      the comment of a user's .cu that says how it is launched, read and checked
kernel_file        that kernel and its launch, as records
runs               all runs of a subject, and everything that is wrong with it
case_run           one run of one launch, in a process that may be lost
own_kernel_run     one run of a kernel with arguments of its own
run_findings       what the runs showed: faults, outputs that depend on the schedule
findings           the reports of many runs merged; slow accesses
unseen             what the text uses that the emulator cannot see, and the ef:: way
compiler_messages  what g++, NVRTC and ptxas say, as findings
advice             what each kind of finding means and what to do, read from advice.toml
report             the findings in the style of a compiler, or as JSON
"""
