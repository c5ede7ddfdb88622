"""A report's record as one HTML page: no other file, no network, readable without JavaScript.

    benchmark    A benchmark as one HTML page that needs no other file, in light and dark, with plots
    charts       A report's charts
    details      The page's later sections
    leaderboard  The leaderboard as one HTML page that needs no other file
    learnt       The page's middle sections
    markup       Numbers, tables and text as HTML; everything that is not ours is escaped
    report       A report's record as one HTML page
    sections     The page's first sections
    svg          A chart's frame in SVG (scales, ticks, axes), and a family's colour and shape
"""
