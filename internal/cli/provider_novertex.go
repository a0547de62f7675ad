//go:build novertex

package cli

func vertexProvider() (provider, bool) { return provider{}, false }
