"""All scripts that write committed text. They make it of records and of the code, and measure nothing.

champions      Makes the shipped archive of a GPU from what was measured on it
console/       Every console block of the README and of docs/ is made by running its commands
emulator       Writes the table of docs/emulator.md that says what each kind of finding means
genes          Writes docs/genes.md
h200           Makes docs/h200.md of the records of scripts/peers
markdown       Tables in Markdown, text between two marks of a page, and whole pages written or held against
               old ones
package_lists  Writes into each package's docstring the list of its modules, by their first lines
parts/         What is generated within README.md and hand-written pages of docs/, as text
primitives     Writes docs/primitives.md, the list of the ef:: primitives, out of the headers of
               evoflash/device/.
readme         Writes what is generated within README.md and pages of docs/ that are otherwise written by hand
rivals         Writes the tables of docs/linear.md and docs/serving.md
self_test      Writes the tables of docs/self-test.md from the corpus of frauds
unseen         Makes docs/unseen.md of the records of scripts.peers.holdout
"""
