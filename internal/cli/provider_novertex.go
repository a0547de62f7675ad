//go:build novertex

package cli

func vertexProvider() (*provider, bool) { return nil, false }
