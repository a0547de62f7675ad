package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/certificate"
)

// TestReadyTellsOfAnOutdatedCertificate runs a service whose NATS server shows a certificate that has ended.
func TestReadyTellsOfAnOutdatedCertificate(t *testing.T) {
	t.Parallel()
	old := certifyUntil(t, "old", time.Now().Add(-time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	log, lines := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"serve", "--data", t.TempDir(), "--http", "127.0.0.1:0", "--tls-cert", old.Cert, "--tls-key", old.Key}, strings.NewReader(""), io.Discard, lines)
		lines.Close()
	}()
	var said strings.Builder
	at := ""
	for in := bufio.NewScanner(log); in.Scan(); {
		said.WriteString(in.Text() + "\n")
		if at == "" {
			if at = regexp.MustCompile(`http://[0-9.:]+/readyz`).FindString(in.Text()); at != "" {
				go func() {
					defer cancel()
					body := ""
					for end := time.Now().Add(time.Minute); time.Now().Before(end) && !strings.HasPrefix(body, "ok\n"); {
						body = readyz(t, at) // it takes a moment until somebody owns the partitions
					}
					if !strings.HasPrefix(body, "ok\n") || !strings.Contains(body, "--tls-cert has ended on") {
						t.Errorf("the service says %q", body)
					}
				}()
			}
		}
	}
	cancel()
	<-ended
	if at == "" || !strings.Contains(said.String(), "level=WARN msg=\"the certificate") {
		t.Errorf("the log is %s", said.String())
	}
}

// readyz returns what a service says of itself.
func readyz(t *testing.T, url string) string {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// TestOutdated looks at a certificate that holds for two hours, since an hour ago.
func TestOutdated(t *testing.T) {
	made := certify(t, "server")
	file := made.Cert
	is, err := certificate.Open(file, made.Key)
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]string{
		-2 * time.Hour: "holds only from", 0: "", 50 * time.Minute: "ends on", 2 * time.Hour: "so that others refuse it",
	} {
		for _, c := range []shownCertificate{{"--http-cert", file, is}, {"--tls-cert", file, is}} {
			line := strings.Join(c.outdated(time.Now().Add(after)), "\n")
			if line == "" && want == "" {
				continue
			}
			if want == "" || !strings.Contains(line, want) || !strings.Contains(line, file+" of "+c.setting) {
				t.Errorf("%s, %v from now: %q, want %q", c.setting, after, line, want)
			}
		}
	}
	s := &settings{}
	s.tls.Cert, s.tls.Key = file, made.Key
	if all := fmt.Sprint(s.certificates(nil, ""), s.certificates(is, file)); strings.Count(all, "--tls-cert") != 2 || strings.Count(all, "--http-cert") != 1 {
		t.Errorf("the certificates of a service are %v", all)
	}
	if s.tls.Cert += ".none"; s.certificates(nil, "") != nil {
		t.Error("a certificate that is not there is shown")
	}
}

// TestReplacedByAnUnusableCertificate runs a service whose certificates are replaced by something else, of the same size and time: it says so, and goes on to
// show the last ones, and then the next that can be used.
func TestReplacedByAnUnusableCertificate(t *testing.T) {
	t.Parallel()
	web, bus := certify(t, "web"), certify(t, "bus")
	ctx, cancel := context.WithCancel(t.Context())
	log, lines := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{
			"serve", "--data", t.TempDir(), "--http", "127.0.0.1:0", "--http-cert", web.Cert, "--http-key", web.Key, "--tls-cert", bus.Cert, "--tls-key", bus.Key,
		}, strings.NewReader(""), io.Discard, lines)
		lines.Close()
	}()
	at, said := make(chan string, 1), make(chan string, 1)
	go func() {
		var all strings.Builder
		for in := bufio.NewScanner(log); in.Scan(); {
			all.WriteString(in.Text() + "\n")
			if url := regexp.MustCompile(`https://[0-9.:]+/readyz`).FindString(in.Text()); url != "" {
				at <- url
			}
		}
		said <- all.String()
		close(at)
	}()
	defer func() {
		cancel()
		<-ended
		if text := <-said; strings.Count(text, "level=WARN msg=\"--http-cert has changed and cannot be used") == 0 || !strings.Contains(text, "level=WARN msg=\"--tls-cert has changed") {
			t.Errorf("the log is %s", text)
		}
	}()
	url := <-at
	if url == "" {
		return
	}
	says := func(what string, is func(string) bool) {
		t.Helper()
		body := ""
		for end := time.Now().Add(time.Minute); !is(body); <-time.After(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s: it says %q", what, body)
				return
			}
			body = readyzBy(t, url)
		}
	}
	says("at first", func(text string) bool { return strings.HasPrefix(text, "ok\n") && !strings.Contains(text, "-cert") })
	var good [][]byte
	for _, file := range []string{web.Cert, bus.Cert} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, b)
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(file, bytes.Repeat([]byte("x"), len(b)), 0o600), os.Chtimes(file, info.ModTime(), info.ModTime())); err != nil {
			t.Fatal(err)
		}
	}
	says("unusable", func(text string) bool {
		return strings.HasPrefix(text, "ok\n") && strings.Contains(text, "--http-cert has changed and cannot be used") && strings.Contains(text, "--tls-cert has changed and cannot be used")
	})
	for i, file := range []string{web.Cert, bus.Cert} {
		if err := os.WriteFile(file, good[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	says("usable again", func(text string) bool { return strings.HasPrefix(text, "ok\n") && !strings.Contains(text, "-cert") })
}

// readyzBy returns what a service says of itself by TLS, "" if it does not answer.
func readyzBy(t *testing.T, url string) string {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	trusting := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // the name in it is another
	answer, err := trusting.RoundTrip(r)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return ""
	}
	return string(b)
}
