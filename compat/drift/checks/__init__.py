"""One way of not fitting a file. Each `check(context)` gives its findings, in any order."""
