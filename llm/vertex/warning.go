package vertex

import (
	"bytes"
	"io"
	"log"
	"sync"
)

// warning is in the line that the SDK logs, on the global logger, each time a client is made.
var warning = []byte("the cloud.google.com/go/vertexai/genai package is deprecated")

// logging is held while the global logger writes to a filter.
var logging sync.Mutex

// withoutWarning calls f and keeps the SDK's warning off the global logger. All else that is logged meanwhile is written
// to where it would have been.
func withoutWarning(f func()) {
	logging.Lock()
	defer logging.Unlock()
	w := &filter{log.Writer()}
	log.SetOutput(w)
	defer func() {
		if log.Writer() == io.Writer(w) { // else somebody has set another one since
			log.SetOutput(w.Writer)
		}
	}()
	f()
}

// filter drops the warning. A logger writes each of its entries at once.
type filter struct{ io.Writer }

func (f *filter) Write(entry []byte) (int, error) {
	if bytes.Contains(entry, warning) {
		return len(entry), nil
	}
	return f.Writer.Write(entry)
}
