"""`evoflash dashboard`: a run as an Optuna study, shown by optuna-dashboard.

command   the command's options
study     a run as a study in a file: params, user attributes, constraints
serving   optuna-dashboard on such a file
"""
