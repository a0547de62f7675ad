//go:build unix

package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// damageSeeds is how many data folders TestDamagedFolder damages, unless the environment says otherwise.
const damageSeeds = 6

// damageMemory bounds the memory of a service on a damaged folder, in KiB.
const damageMemory = 1 << 20

// damagedTalks are the conversations of the folder before the damage.
var damagedTalks = []string{"first", "second", "third"}

// TestDamagedFolder damages any file of the data folder of a service that has ended, was killed, or runs, and judges from outside: the service starts,
// what is lost is named in its log, everything else is there, new questions are answered, and its memory is bounded. Only a file that says whether there were
// keys may keep it from starting, in words. The environment variable CORTEX_DAMAGE_SEEDS says how many folders are damaged, and CORTEX_DAMAGE_SEED
// which one alone.
func TestDamagedFolder(t *testing.T) {
	first, many := rand.Uint64N(1_000_000)+1, uint64(damageSeeds)
	if text := os.Getenv("CORTEX_DAMAGE_SEEDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		many = n
	}
	if text := os.Getenv("CORTEX_DAMAGE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, many = n, 1
	}
	ended, killed := t.TempDir(), t.TempDir()
	s := runService(t, ended)
	s.isReady()
	for _, id := range append(slices.Clone(damagedTalks), "gone") {
		if said, err := s.asks(id, "words of "+id); err != nil || !strings.Contains(said, "words of "+id) {
			t.Fatalf("the answer is %q, %v", said, err)
		}
	}
	if out, err := s.run("conversations", "delete", "--yes", "gone"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.cmd.Process.Kill() //nolint:errcheck // it runs
	<-s.ended
	if err := os.CopyFS(killed, os.DirFS(ended)); err != nil {
		t.Fatal(err)
	}
	s = runService(t, ended)
	s.isReady()
	s.stop()
	for seed := first; seed < first+many; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			t.Logf("again with: CORTEX_DAMAGE_SEED=%d go test ./tests -run TestDamagedFolder", seed)
			dir := t.TempDir()
			from := []string{ended, killed, ended}[seed%3]
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			rnd := rand.New(rand.NewPCG(seed, 5))
			var log strings.Builder
			file := ""
			if seed%3 == 2 { // while it runs
				s := runService(t, dir)
				s.isReady()
				file = damageFolder(t, rnd, dir)
				pause(t, 1500*time.Millisecond) // a part of what the service notices by itself
				s.stopDamaged()
				log.WriteString(s.log.String())
			} else {
				file = damageFolder(t, rnd, dir)
			}
			judgeDamaged(t, dir, file, &log)
		})
	}
}

// stopDamaged is as stop, and the service may have found that its store cannot be written any more.
func (s *service) stopDamaged() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // unless it has ended by itself
	<-s.ended
	if code := s.cmd.ProcessState.ExitCode(); code != 0 && (code != 1 || !strings.Contains(s.log.String(), "\ncortex: the NATS server cannot write any more; ")) {
		s.t.Errorf("exit status %d; the log:\n%s", code, s.log)
	}
}

// judgeDamaged starts a service on a folder in which a file is damaged. log is what an earlier one has said since.
func judgeDamaged(t *testing.T, dir, file string, log *strings.Builder) {
	s := runService(t, dir)
	if !s.starts() {
		if name := filepath.Base(file); name != "last.json" && name != "server.json" {
			t.Fatalf("it does not start:\n%s", s.log)
		}
		if !strings.Contains(s.log.String(), "\ncortex: ") && !strings.HasPrefix(s.log.String(), "cortex: ") {
			t.Errorf("it ends without a word:\n%s", s.log)
		}
		return
	}
	if said, err := s.asks("fresh", "new words"); err != nil || !strings.Contains(said, "new words") {
		t.Errorf("a new question is answered with %q, %v\n%s", said, err, s.log)
	}
	list, err := s.run("conversations", "list")
	if err != nil {
		t.Errorf("%v: %s", err, list)
	}
	if slices.Contains(strings.Fields(list), "gone") {
		t.Error("the conversation that was deleted is there")
	}
	var missing []string
	for _, id := range damagedTalks {
		if has, err := s.run("conversations", "history", id); err != nil || !strings.Contains(has, "words of "+id) || !slices.Contains(strings.Fields(list), id) {
			missing = append(missing, id)
		}
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)); err == nil {
		if m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status); m != nil {
			if used, _ := strconv.Atoi(string(m[1])); used > damageMemory {
				t.Errorf("it takes %d MiB", used>>10)
			}
		}
	}
	s.stop()
	log.WriteString(s.log.String())
	if text := log.String(); strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") {
		t.Errorf("it panics:\n%s", text)
	}
	// What is cut from the end of a file soon after it was written, behind a kill, cannot be told from a write that was not finished: it is said to be one.
	told := regexp.MustCompile(`level=(WARN|ERROR) .*(damage|lost|gone|replaced)|msg="a write to the store was not finished"`).MatchString(log.String())
	if len(missing) > 0 && !told {
		t.Errorf("%q are missing, and nothing is said:\n%s", missing, log)
	}
	if convenience := regexp.MustCompile(`KV_|CORTEX_KEYS|CORTEX_DEAD`); len(missing) > 0 && (!strings.Contains(file, "CORTEX_") || convenience.MatchString(file)) {
		t.Errorf("%q are missing, though only %s is damaged:\n%s", missing, file, log)
	}
}

// damageFolder damages a file of a data folder, or puts something else in its place, and returns its path.
func damageFolder(t *testing.T, rnd *rand.Rand, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.Type().IsRegular() && d.Name() != "lock" { // without its lock a service ends, as it says
			all = append(all, path)
			if strings.HasSuffix(path, ".blk") || !strings.Contains(path, "jetstream") {
				all = append(all, path, path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	path := all[rnd.IntN(len(all))]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	overwrite := func(b []byte) error { // the file stays the same one
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return errors.Join(err, f.Close())
	}
	flip := func(times int) func() error {
		return func() error {
			for range min(times, len(b)*8) {
				b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
			}
			return overwrite(b)
		}
	}
	replace := func(put func() error) func() error {
		return func() error { return errors.Join(os.Remove(path), put()) }
	}
	kinds := []struct {
		name string
		do   func() error
	}{
		{"flipped a bit of", flip(1)},
		{"flipped 50 bits of", flip(50)},
		{"cut", func() error { return overwrite(b[:rnd.IntN(len(b)+1)]) }},
		{"emptied", func() error { return overwrite(nil) }},
		{"removed", func() error { return os.Remove(path) }},
		{"added to", func() error {
			return overwrite(append(b, bytes.Repeat([]byte{byte(rnd.Uint32())}, 1+rnd.IntN(4000))...))
		}},
		{"zeroed the end of", func() error { clear(b[len(b)/2:]); return overwrite(b) }},
		{"copied another one over", func() error {
			other, err := os.ReadFile(all[rnd.IntN(len(all))])
			return errors.Join(err, overwrite(other))
		}},
		{"put a folder in the place of", replace(func() error { return os.MkdirAll(filepath.Join(path, "inside"), 0o700) })},
		{"put a pipe in the place of", replace(func() error { return syscall.Mkfifo(path, 0o600) })},
		{"put a loop in the place of", replace(func() error { return os.Symlink(filepath.Base(path), path) })},
		{"put what never ends in the place of", replace(func() error { return os.Symlink("/dev/zero", path) })},
	}
	kind := kinds[rnd.IntN(len(kinds))]
	if err := kind.do(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	t.Logf("%s %s", kind.name, strings.TrimPrefix(path, dir))
	return path
}

// runService starts a service on a data folder.
func runService(t *testing.T, data string) *service {
	t.Helper()
	path := cortexPath(t)
	s := &service{t: t, path: path, data: data, log: new(lines), ended: make(chan struct{})}
	s.cmd = exec.Command(path, "serve", "--data", data, "--http", "127.0.0.1:0", "--agents", "echo")
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.cmd.Wait() //nolint:errcheck // the state is what counts
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-s.ended
	})
	return s
}

// starts waits until the service is ready, or has ended.
func (s *service) starts() bool {
	s.t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-s.ended:
			return false
		case <-poll.C:
		}
		m := regexp.MustCompile(`http://([0-9.:]+)/readyz`).FindStringSubmatch(s.log.String())
		if m == nil {
			continue
		}
		if r, err := http.Get("http://" + m[1] + "/readyz"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return true
			}
		} else if n := net.Error(nil); errors.As(err, &n) && n.Timeout() {
			s.t.Errorf("/readyz: %v", err)
		}
	}
	s.t.Fatalf("it neither ends nor is ready; the log:\n%s", s.log)
	return false
}

// run runs a command on the service's data folder. One that hangs is an error.
func (s *service) run(args ...string) (string, error) {
	cmd := exec.Command(s.path, append(args, "--data", s.data)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	hangs := time.AfterFunc(patience, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	defer hangs.Stop()
	err := cmd.Wait()
	return out.String(), err
}

// asks has the echo agent say something.
func (s *service) asks(contextID, text string) (string, error) {
	return s.run("ask", "--conversation", contextID, "--agent", "agent_echo", text)
}
