package oidc_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/console/oidc"
)

// TestEndlessAnswers has an identity provider answer without an end: it is refused after a bounded number of bytes.
func TestEndlessAnswers(t *testing.T) {
	sent := make(chan int, 1)
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, piece := 0, []byte(strings.Repeat(" ", 64<<10))
		for err := error(nil); err == nil && n < 1<<30; {
			var m int
			m, err = w.Write(piece)
			n += m
		}
		sent <- n
	}))
	defer p.Close()
	c, err := oidc.New(oidc.Config{Issuer: p.URL, Client: "x"})
	must(t, err)
	_, err = c.Start(t.Context(), &console.Flow{State: "s", Nonce: "n", Verifier: "v", Until: time.Now().Add(time.Minute)}, "http://localhost/login/callback")
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("the answer: %v", err)
	}
	if n := <-sent; n >= 1<<30 {
		t.Errorf("%d bytes are read", n)
	}
}
