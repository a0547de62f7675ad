package agents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// shelf is a transport that refuses some chunks.
type shelf struct {
	*memory.Bus

	refuse func(n, asked int) error // n: the chunk of its file; asked: the attempt at any chunk, from 1

	mu    sync.Mutex
	asked int
	files map[string]bool
}

func (s *shelf) PutChunk(ctx context.Context, o transport.Object, n int, sealed []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.files == nil {
		s.files = map[string]bool{}
	}
	s.files[o.ID] = true
	if err := s.refuse(n, s.asked); err != nil {
		return err
	}
	return s.Bus.PutChunk(ctx, o, n, sealed)
}

// tries returns the number of attempts to store a chunk, and the number of files.
func (s *shelf) tries() (asked, files int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, len(s.files)
}

// serveOn runs an agent on tr.
func (b *bench) serveOn(tr transport.Transport, h agents.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- agents.Serve(ctx, tr, card(), h, nil) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	}
}

// large are ways for a handler to return a file that is too large for a message.
var large = map[string]agents.Handler{
	"part": func(context.Context, *agents.Task) (*agents.Result, error) {
		return &agents.Result{Parts: a2a.ContentParts{{Content: a2a.Raw(make([]byte, 600<<10)), Filename: "x.bin"}}}, nil
	},
	"artifact": func(_ context.Context, t *agents.Task) (*agents.Result, error) {
		return agents.Text("done"), t.Artifact("x", &a2a.Part{Content: a2a.Raw(make([]byte, 600<<10)), Filename: "x.bin"})
	},
	"pieces": func(_ context.Context, t *agents.Task) (*agents.Result, error) {
		for i := range 6 {
			part := &a2a.Part{Content: a2a.Raw(make([]byte, 100<<10)), Filename: "x.bin"}
			u := &a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{ID: "x", Parts: a2a.ContentParts{part}}, Append: i > 0, LastChunk: i == 5}
			if err := t.Update(u); err != nil {
				return nil, err
			}
		}
		return agents.Text("done"), nil
	},
	"file": func(_ context.Context, t *agents.Task) (*agents.Result, error) { // slowly
		return agents.Text("done"), t.AddFile(context.Background(), "x.bin", "", io.LimitReader(zeros{}, 600<<10))
	},
}

// TestFullStoreFailsTheTask has a full store: the task fails at once, with a text that says what is full and what to do.
func TestFullStoreFailsTheTask(t *testing.T) {
	for way, h := range large {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				full := fmt.Errorf("%w: agent_x keeps 16 GiB: delete conversations", transport.ErrFilesFull)
				s := &shelf{Bus: b.bus.Dial(), refuse: func(n, _ int) error {
					if n == 1 {
						return full
					}
					return nil
				}}
				defer b.serveOn(s, h)()
				b.give(task("t1", "work", nil))
				got := b.got()
				if len(got) != 1 || !strings.HasPrefix(got[0], "t1 FAILED: ") || !strings.Contains(got[0], "there is no room for more files: agent_x keeps 16 GiB: delete conversations") {
					t.Errorf("results %q, want a failure that says what is full and what to do", got)
				}
				if asked, _ := s.tries(); asked != 2 {
					t.Errorf("%d chunks were to be stored, want 2", asked)
				}
			})
		})
	}
}

// TestStoreThatIsAway has a store that stays unavailable: the task ends at its deadline, or when it is canceled, and uses a single file. A
// stopping agent returns the task to the inbox.
func TestStoreThatIsAway(t *testing.T) {
	away := func(int, int) error { return fmt.Errorf("%w: nobody answers", transport.ErrUnavailable) }
	for way, h := range large {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				s := &shelf{Bus: b.bus.Dial(), refuse: away}
				stop := b.serveOn(s, h)
				b.give(task("late", "work", map[string]any{transport.MetaDeadline: time.Now().Add(time.Minute).Format(time.RFC3339Nano)}))
				pass(59 * time.Second)
				b.want()
				if asked, files := s.tries(); asked < 10 || files != 1 {
					t.Errorf("after %d attempts there are %d files, want one", asked, files)
				}
				pass(2 * time.Second)
				if got := b.got(); len(got) != 1 || !strings.HasPrefix(got[0], "late FAILED: the agent was not done at the deadline") {
					t.Errorf("results %q, want that the deadline passed", got)
				}
				b.give(task("gone", "work", nil))
				b.cancel(&transport.Cancel{TaskID: "gone", Reason: "enough"})
				if got := b.got(); len(got) != 2 || got[1] != "gone CANCELED: the task was canceled: enough" {
					t.Errorf("results %q, want that the second one was canceled", got)
				}
				b.give(task("left", "work", nil))
				stop()
				if got := b.got(); len(got) != 2 || b.waiting() != 1 {
					t.Errorf("results %q, and %d tasks wait, want that the third one was handed back", got, b.waiting())
				}
			})
		})
	}
}

// TestStoreThatComesBack has a store that is unavailable for a while: the result is complete, and nothing else was stored.
func TestStoreThatComesBack(t *testing.T) {
	for way, h := range large {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				s := &shelf{Bus: b.bus.Dial(), refuse: func(n, asked int) error {
					if n == 1 && asked < 5 || n == 2 && asked < 9 {
						return transport.ErrUnavailable
					}
					return nil
				}}
				defer b.serveOn(s, h)()
				b.give(task("t1", "work", nil))
				pass(time.Minute)
				b.mu.Lock()
				defer b.mu.Unlock()
				if len(b.results) != 1 {
					t.Fatalf("%d results, want one", len(b.results))
				}
				result := b.results[0].Payload.(*a2a.Task)
				files := transport.FilesOf(result.Status.Message.Parts)
				for _, a := range result.Artifacts {
					files = append(files, transport.FilesOf(a.Parts)...)
				}
				if len(files) != 1 || !transport.IsFileRef(files[0]) {
					t.Fatalf("the result has the files %v, want a reference", files)
				}
				if all, err := transport.ReadPart(t.Context(), b.bus, "", files[0], 1<<20); err != nil || !bytes.Equal(all, make([]byte, 600<<10)) {
					t.Errorf("the file is %d bytes, %v", len(all), err)
				}
				stored := 0
				for _, err := range b.bus.Objects(t.Context(), "") {
					if stored++; err != nil {
						t.Fatal(err)
					}
				}
				if stored != 1 {
					t.Errorf("%d files are stored, want one", stored)
				}
			})
		})
	}
}

// TestFailureWithFiles has a task fail with files that cannot be stored: the result also says why the task failed.
func TestFailureWithFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := &shelf{Bus: b.bus.Dial(), refuse: func(int, int) error { return transport.ErrFilesFull }}
		defer b.serveOn(s, func(_ context.Context, t *agents.Task) (*agents.Result, error) {
			part := &a2a.Part{Content: a2a.Raw(make([]byte, 600<<10)), Filename: "x.bin"}
			if err := t.Update(&a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{ID: "x", Parts: a2a.ContentParts{part}}}); err != nil {
				return nil, err
			}
			return nil, errors.New("the plotter broke")
		})()
		b.give(task("t1", "work", nil))
		b.want("t1 FAILED: the plotter broke\n[the files of the result cannot be stored: store a file: there is no room for more files]")
	})
}

// TestLongTextWithoutFiles checks that a long text is sent, cut, where no file can be stored, or none at all.
func TestLongTextWithoutFiles(t *testing.T) {
	for name, on := range map[string]func(b *bench) transport.Transport{
		"full": func(b *bench) transport.Transport {
			return &shelf{Bus: b.bus.Dial(), refuse: func(int, int) error { return transport.ErrFilesFull }}
		},
		"no files": func(b *bench) transport.Transport { return struct{ transport.Transport }{b.bus.Dial()} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				defer b.serveOn(on(b), func(context.Context, *agents.Task) (*agents.Result, error) {
					return agents.Text(strings.Repeat("x", 300<<10)), nil
				})()
				b.give(task("t1", "work", nil))
				b.want("t1 COMPLETED: " + strings.Repeat("x", 256<<10) + "\n[cut: the first 262144 of 307200 bytes]")
			})
		})
	}
}

// TestNoKeyIsShown checks that watchers see an artifact, but of a large file not the key.
func TestNoKeyIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.serve(func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
			small := &a2a.Part{Content: a2a.Raw("small"), Filename: "s.txt", MediaType: "text/plain"}
			big := &a2a.Part{Content: a2a.Raw(make([]byte, 600<<10)), Filename: "b.bin", MediaType: "image/png"}
			if err := t.Artifact("both", small, big); err != nil {
				return nil, err
			}
			return nil, t.AddFile(ctx, "c.bin", "", io.LimitReader(zeros{}, 600<<10))
		}, nil)()
		b.give(task("t1", "work", nil))
		b.want("t1 COMPLETED")
		var shown []string
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range b.live {
			for _, p := range e.Payload.(*a2a.TaskArtifactUpdateEvent).Artifact.Parts {
				if p.Meta()["file_key"] != nil {
					t.Errorf("the key to %s is shown", p.Filename)
				}
				shown = append(shown, fmt.Sprint(transport.FileLine(p), " ", transport.IsForgotten(p)))
			}
		}
		want := "s.txt, text/plain, 5 bytes false; b.bin, image/png, 614 kB true; c.bin, application/octet-stream, 614 kB true"
		if got := strings.Join(shown, "; "); got != want {
			t.Errorf("shown: %s, want %s", got, want)
		}
		for _, artifact := range b.results[0].Payload.(*a2a.Task).Artifacts {
			for _, p := range artifact.Parts {
				if _, err := transport.ReadPart(t.Context(), b.bus, "", p, 1<<20); err != nil {
					t.Errorf("the result has no %s: %v", p.Filename, err)
				}
			}
		}
	})
}
