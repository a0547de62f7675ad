// The compiler takes a function without a body, as in pipe.go, only where there is such a file.
