"""Shows a report as one HTML page that needs no other file and no network. Computes nothing.

benchmark    A benchmark as one HTML page that needs no other file, in light and dark
charts       A report's charts over a frame
details      The page's later sections
leaderboard  The leaderboard as one HTML page that needs no other file
learnt       The page's middle sections
markup       Numbers, tables and text as HTML; everything that is not ours is escaped
report       A report's record as one HTML page
sections     The page's first sections
svg          A family's colour and shape, the same in every chart
"""
