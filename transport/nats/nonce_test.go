package nats

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// impostor is a server that asks its clients to sign a nonce, and returns its URL. What they send is in lines.
func impostor(t *testing.T, nonce string) (url string, lines <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan string, 1000)
	ended := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			info, err := json.Marshal(map[string]any{
				"server_id": "x", "version": "2.14.0", "proto": 1, "headers": true, "jetstream": true, "max_payload": 8 << 20, "auth_required": true,
				"nonce": nonce,
			})
			if err == nil {
				_, err = fmt.Fprintf(c, "INFO %s\r\n", info)
			}
			if err == nil {
				line, _ := bufio.NewReader(c).ReadString('\n')
				sent <- line
			}
			c.Close()
		}
	}()
	return "nats://" + l.Addr().String(), sent
}

// TestNoncesAreWords has a server, or who is between it and its clients, ask for the signature of which a bearer token is made. It gets none, and whoever
// connects is told; a server's own question is answered.
func TestNoncesAreWords(t *testing.T) {
	dir := keys(t, "")
	creds, err := auth.AddUser(dir, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	token, err := auth.BearerToken(creds)
	if err != nil {
		t.Fatal(err)
	}
	cut := strings.LastIndexByte(token, '.')
	for name, nonce := range map[string]string{"a bearer token": "cortex bearer token\n" + token[:cut], "two words": "two words", "long": strings.Repeat("x", 1000)} {
		url, lines := impostor(t, nonce)
		_, err := Dial(t.Context(), &Options{URL: url, Creds: creds})
		if !errors.Is(err, transport.ErrForbidden) || !strings.Contains(err.Error(), "something else than a random word") {
			t.Errorf("%s: Dial() = %v", name, err)
		}
		for len(lines) > 0 {
			if line := <-lines; strings.Contains(line, token[cut+1:]) || strings.HasPrefix(line, "CONNECT") {
				t.Errorf("%s: it is sent %.100q", name, line)
			}
		}
	}
	url, lines := impostor(t, "kI2m-9_ZpQ0sX1a")
	if _, err := Dial(t.Context(), &Options{URL: url, Creds: creds}); err == nil {
		t.Error("an impostor is connected to")
	}
	if line := receive(t, lines); !strings.HasPrefix(line, "CONNECT") || !strings.Contains(line, `"sig":"`) {
		t.Errorf("a server that asks as servers do is sent %.100q", line)
	}
}
