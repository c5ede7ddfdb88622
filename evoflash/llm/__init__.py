"""A language model as an operator of the search: it is asked for edits of genes, ahead of their use.

It measures nothing and stores nothing.

    answers         Judges a language model's answer
    correspondence  Asks the model in a thread and hands out what came back, or repeats an earlier search's
                    exchanges
    endpoint        One request to an endpoint of OpenAI's chat protocol, within limits of time and bytes
    operator        A language model beside any strategy
    prompt          Writes the request to a language model from what a search knows
"""
