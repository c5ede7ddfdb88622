"""The commands, one file each: a command parses its options, makes one call of app/ and shows the answer.

    baselines         The command `evoflash baselines`
    benchmark_search  The command `evoflash benchmark-search`
    best              The command `evoflash best`
    check             The command `evoflash check`
    compare           The command `evoflash compare`
    config            The command `evoflash config`
    dashboard         The command `evoflash dashboard`
    db                The command `evoflash db check`
    doctor            The command `evoflash doctor`
    evaluate          The command `evoflash evaluate`
    export            The command `evoflash export`
    families          The command `evoflash families`
    gpus              The command `evoflash gpus`
    insights          The command `evoflash insights`
    ladder            The command `evoflash ladder`
    leaderboard       The command `evoflash leaderboard`
    new               The command `evoflash new`
    portfolio         The command `evoflash portfolio`
    problems          The command `evoflash problems`
    record            The command `evoflash record`
    remeasure         The command `evoflash remeasure`
    replay            The command `evoflash replay`
    report            The command `evoflash report`
    runs              The command `evoflash runs`
    search            The command `evoflash search`
    show              The command `evoflash show`
    status            The commands `evoflash status` and `evoflash watch`
    verify            The command `evoflash verify`
    worker            The command `evoflash worker`
"""
