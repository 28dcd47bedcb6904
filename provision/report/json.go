package report

import (
	"encoding/json"
	"io"
	"sync"
)

// JSON writes one event per line. It leaves out Progress and the output of commands
// unless it is verbose.
type JSON struct {
	verbose bool

	mu      sync.Mutex
	encoder *json.Encoder
	broken  bool // nobody reads any more
}

// NewJSON writes to out.
func NewJSON(out io.Writer, verbose bool) *JSON {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return &JSON{verbose: verbose, encoder: encoder}
}

// Emit implements Sink.
func (j *JSON) Emit(e Event) {
	if !j.verbose && (e.Kind == Progress || e.Kind == Output) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	// A reader that has gone is no reason to leave a host half done.
	if !j.broken {
		j.broken = j.encoder.Encode(e) != nil
	}
}
