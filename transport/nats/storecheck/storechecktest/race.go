//go:build race

package storechecktest

const step = 25
