package rtfs

import (
	"net/http"
	"strings"
	"testing"
)

// Those who register can lead Cortex nowhere where they could not go themselves.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		local bool
		hosts []string
		url   string
		ok    bool
	}{
		{true, nil, "http://127.0.0.1:8080/", true},
		{true, nil, "http://[::1]:8080/", true},
		{true, nil, "http://localhost:8080/", true},
		{true, nil, "http://10.0.0.7:8080/", false},
		{true, nil, "http://169.254.169.254/", false},
		{true, nil, "https://8.8.8.8/", true},
		{false, nil, "http://127.0.0.1:8080/", false},
		{false, nil, "http://localhost:8080/", false},
		{false, nil, "http://[::ffff:127.0.0.1]:8080/", false},
		{false, nil, "http://agents.example.com/", true}, // where it leads is seen later
		{false, []string{"10.0.0.7"}, "http://10.0.0.7:8080/", true},
		{false, []string{"10.0.0.7:8080"}, "http://10.0.0.7:8080/", true},
		{false, []string{"10.0.0.7:8080"}, "http://10.0.0.7:22/", false},
		{false, []string{"[fd00::7]:80"}, "http://[fd00::7]/", true},
	} {
		if _, err := newPoster(c.local, c.hosts).parse(c.url); (err == nil) != c.ok {
			t.Errorf("parse(%s) with local %t and %v = %v", c.url, c.local, c.hosts, err)
		}
	}
	// A name that leads to this machine is seen when it is dialed.
	agent := newAgent(t, says(""))
	p := newPoster(false, nil)
	for _, address := range []string{strings.TrimPrefix(agent.URL, "http://")} {
		conn, err := p.guarded.Transport.(*http.Transport).DialContext(t.Context(), "tcp", address)
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "--rtfs-host") {
			t.Errorf("dial %s = %v", address, err)
		}
	}
}
