package cli_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestTokensOfAnEarlierCortex shows a service a token as Cortex 0.1.0 has made them: it is not taken, which is told to whoever shows it, and in the log once.
func TestTokensOfAnEarlierCortex(t *testing.T) {
	keys := t.TempDir()
	if err := auth.Init(keys); err != nil {
		t.Fatal(err)
	}
	file, err := auth.AddUser(keys, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	creds, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		t.Fatal(err)
	}
	key, err := jwt.ParseDecoratedUserNKey(creds)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := key.Sign([]byte("cortex bearer token\n" + token))
	if err != nil {
		t.Fatal(err)
	}
	now, err := auth.BearerToken(file)
	if err != nil {
		t.Fatal(err)
	}
	stderr, stop := serveWith(t, nil, "--auth", keys, "--agents", "none")
	defer stop()
	at := regexp.MustCompile(`(http://\S+)/readyz`)
	eventually(t, "it is ready", func() bool {
		return strings.Contains(stderr.String(), "cortex is ready") && at.MatchString(stderr.String())
	})
	url := at.FindStringSubmatch(stderr.String())[1]
	ask := func(method, path, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close() //nolint:errcheck // it is read only
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	for _, c := range []struct {
		method, path string
		code         int
	}{{"POST", url + "/mcp", 401}, {"GET", url + "/metrics", 401}, {"POST", url + "/login/link", 403}} {
		code, said := ask(c.method, c.path, token+"."+base64.RawURLEncoding.EncodeToString(sig))
		if code != c.code || !strings.Contains(said, "of an earlier Cortex") || !strings.Contains(said, "cortex auth token NAME") {
			t.Errorf("%s: %d, %q", c.path, code, said)
		}
		if code, said := ask(c.method, c.path, now); code == 401 || code == 403 {
			t.Errorf("%s, with a token of now: %d, %q", c.path, code, said)
		}
	}
	if n := strings.Count(stderr.String(), "is of an earlier Cortex"); n != 1 {
		t.Errorf("the log says it %d times: %s", n, stderr.String())
	}
}
