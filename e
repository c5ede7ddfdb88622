/work/shared/bugs/t4-correct-without-measurement/run.sh: line 3: replay: command not found
