"""The commands, one file each. A command parses its options, makes one call of app/ and shows the answer.

baselines         `evoflash baselines`
benchmark_search  `evoflash benchmark-search`
best              `evoflash best`
check             The command `evoflash check`
compare           The command `evoflash compare`
config            The command `evoflash config`
dashboard         `evoflash dashboard`
db                `evoflash db check`
doctor            `evoflash doctor`
evaluate          The command `evoflash evaluate`
export            `evoflash export`
families          The command `evoflash families`
gpus              The command `evoflash gpus`
insights          `evoflash insights`
ladder            The command `evoflash ladder`
leaderboard       `evoflash leaderboard`
new               The command `evoflash new`
portfolio         The command `evoflash portfolio`
problems          The command `evoflash problems`
record            `evoflash record`
remeasure         `evoflash remeasure`
replay            `evoflash replay`
report            The command `evoflash report`
runs              `evoflash runs`
search            The command `evoflash search`
show              The command `evoflash show`
status            `evoflash status` and `evoflash watch`
verify            The command `evoflash verify`
worker            `evoflash worker`
"""
