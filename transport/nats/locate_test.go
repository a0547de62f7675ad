package nats_test

import (
	"errors"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// TestLocate has a server come back at another port, while a stranger's listens on the old one: who asks where it is finds it, and
// connects to nobody else meanwhile.
func TestLocate(t *testing.T) {
	dir := t.TempDir()
	start := func(dir, listen string) *nats.Server {
		s, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: dir, Listen: listen})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		return s
	}
	first := start(dir, "127.0.0.1:0")
	at := make(chan string, 1)
	at <- first.URL()
	asked := make(chan struct{}, 100)
	locate := func() (string, error) {
		url := <-at
		at <- url
		select {
		case asked <- struct{}{}:
		default:
		}
		if url == "" {
			return "", errors.New("nobody runs")
		}
		return url, nil
	}
	conn := make(chan bool, 10)
	bus, err := nats.Dial(t.Context(), &nats.Options{URL: first.URL(), Locate: locate, OnConn: func(up bool, _ error) { conn <- up }})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()

	<-at
	at <- ""
	first.Shutdown()
	start(t.TempDir(), first.URL()[len("nats://"):]) // a stranger
	if <-conn {
		t.Fatal("it is connected to a server that has ended")
	}
	for range len(asked) {
		<-asked
	}
	for range 3 { // attempts
		<-asked
	}
	if len(conn) > 0 {
		t.Fatal("it is connected to a stranger")
	}
	second := start(dir, "127.0.0.1:0")
	<-at
	at <- second.URL()
	if up := <-conn; !up {
		t.Fatal("it lost a connection that it did not have")
	}
	if got := bus.Conn().ConnectedServerId(); got == "" {
		t.Error("it is not connected")
	}
	if err := bus.Healthy(t.Context()); err != nil {
		t.Errorf("Healthy() = %v", err)
	}
}
