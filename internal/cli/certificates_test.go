package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
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
	file := certify(t, "server").Cert
	for after, want := range map[time.Duration]string{
		-2 * time.Hour: "holds only from", 0: "", 50 * time.Minute: "ends on", 2 * time.Hour: "so that others refuse it",
	} {
		for _, c := range []certificate{{setting: "--http-cert", file: file}, {"--tls-cert", file, leafOf(file)}} {
			line := c.outdated(time.Now().Add(after))
			if line == "" && want == "" {
				continue
			}
			if want == "" || !strings.Contains(line, want) || !strings.Contains(line, file+" of "+c.setting) {
				t.Errorf("%s, %v from now: %q, want %q", c.setting, after, line, want)
			}
		}
	}
	none := certificate{setting: "--http-cert", file: file + ".none"}
	if line := none.outdated(time.Now()); line != "" {
		t.Errorf("a certificate that is not there: %s", line)
	}
	s := &settings{}
	s.tls.Cert = file
	if all := fmt.Sprint(s.certificates(""), s.certificates(file)); strings.Count(all, "--tls-cert") != 2 || strings.Count(all, "--http-cert") != 1 {
		t.Errorf("the certificates of a service are %v", all)
	}
}
