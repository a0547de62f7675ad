package openfiles

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestDivide checks that all listeners and the models together leave the store what it needs.
func TestDivide(t *testing.T) {
	for _, limit := range []int{256, 1024, 4096, 65_536, 1 << 20} {
		for _, listeners := range []int{1, 2, 4} {
			taken := bus(limit) + listeners*web(limit, listeners) + models(limit)
			if reserve := limit - taken; reserve < min(limit/4, maxReserve) {
				t.Errorf("of %d files, %d listeners, the bus and the models take %d", limit, listeners, taken)
			}
			if models(limit) < min(limit/8, maxModels) {
				t.Errorf("of %d files, the models have %d", limit, models(limit))
			}
			if bus(limit) < 2*web(limit, listeners) {
				t.Errorf("of %d files, the bus has %d and a page %d", limit, bus(limit), web(limit, listeners))
			}
		}
	}
	if Limit() < 1 || Bus() < minBus || HTTP(1) < minHTTP || Models() < minModels {
		t.Errorf("Limit() = %d, Bus() = %d, HTTP(1) = %d, Models() = %d", Limit(), Bus(), HTTP(1), Models())
	}
}

// TestFew checks that Few returns an advice when all listeners together can leave the store less than it needs.
func TestFew(t *testing.T) {
	for limit := range 1024 {
		got := few(limit)
		left := limit - bus(limit) - web(limit, 1) - models(limit)
		if short := left < minReserve; short != (got != "") || short && !strings.Contains(got, fmt.Sprintf("%d files", limit)) {
			t.Errorf("few(%d) = %q, and the listeners and models leave %d", limit, got, left)
		}
	}
}

func TestNone(t *testing.T) {
	for _, err := range []error{syscall.EMFILE, &os.PathError{Op: "open", Path: "x", Err: syscall.ENFILE}, errors.New("open x: too many open files (10077)")} {
		if !None(fmt.Errorf("store: %w", err)) {
			t.Errorf("None(%v) = false", err)
		}
	}
	for _, err := range []error{nil, syscall.ENOSPC, errors.New("no space left on device")} {
		if None(err) {
			t.Errorf("None(%v) = true", err)
		}
	}
}
