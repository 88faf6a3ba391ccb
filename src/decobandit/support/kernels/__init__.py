"""How kernels are compiled: the one decorator that all of them use."""
