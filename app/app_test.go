package app_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/app"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestOptionsAreChecked checks the errors for a transport or a store that no flag could name, or that cannot be opened.
func TestOptionsAreChecked(t *testing.T) {
	dial := func(context.Context, *app.Target) (transport.Transport, error) { return nil, nil }
	open := func(context.Context, *app.Target) (storage.Store, error) { return nil, nil }
	for want, o := range map[string]app.Options{
		`the name "My bus" cannot be given to --transport: use lower-case letters, digits and -`: {Transports: map[string]app.Transport{"My bus": {Open: dial}}},
		`the name "a:b" cannot be given to --store: use lower-case letters, digits and -`:        {Stores: map[string]app.Store{"a:b": {Open: open}}},
		`the transport "loft" has no Open`:                                                       {Transports: map[string]app.Transport{"loft": {}}},
		`the store "shelf" has no Open`:                                                          {Stores: map[string]app.Store{"shelf": {}}},
	} {
		var out bytes.Buffer
		if status := app.Run(t.Context(), o, []string{"version"}, strings.NewReader(""), &out, &out); status != 2 || out.String() != "cortex: "+want+"\n" {
			t.Errorf("Run = %d, %q, want %q", status, out.String(), want)
		}
	}
	o := app.Options{Transports: map[string]app.Transport{"loft": {Open: dial}}, Stores: map[string]app.Store{"shelf+s3": {Open: open}}}
	var out bytes.Buffer
	if status := app.Run(t.Context(), o, []string{"help", "settings"}, strings.NewReader(""), &out, &out); status != 0 ||
		!strings.Contains(out.String(), "CORTEX_TRANSPORT") || !strings.Contains(out.String(), "CORTEX_STORE") {
		t.Errorf("Run = %d, want the settings of transport and store in\n%s", status, out.String())
	}
}
