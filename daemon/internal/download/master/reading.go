package master

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/cr-clawer/urifilter/daemon/internal/download/jobfile"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// jobMemory is how many times JobBytes all jobs may take in memory that are read at a time. A few bytes of a text can
// be a part of its own that takes many times as much, so that bytes alone are no bound.
const jobMemory = 16

// leastReading is enough for a piece of each body of a thousand connections.
const leastReading = 64 << 20

// readingBytes is what all jobs may take in memory that are read at a time.
func readingBytes(jobBytes int64) int64 { return max(jobMemory*jobBytes, leastReading) }

// piece is in which steps memory is taken while a body comes.
const piece = 64 << 10

// taken is memory that a call has taken.
type taken struct {
	m     *Master
	bytes int64
}

func (t *taken) take(n int64) error {
	if !t.m.reading.Take(n) {
		return &problemdetail.Error{Code: problemdetail.Overloaded, Detail: "the jobs that are being read take all memory that there is for them: try again", Header: [2]string{"Retry-After", "1"}}
	}
	t.bytes += n
	return nil
}

func (t *taken) giveBack() { t.m.reading.Give(t.bytes) }

// body reads a body whose bytes, and what reading them as a job needs, are taken from the memory for all jobs.
func (t *taken) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	from := http.MaxBytesReader(w, t.m.inTime(w, r.Body), t.m.JobBytes)
	var text bytes.Buffer
	for {
		if err := t.take(piece); err != nil {
			return nil, err
		}
		switch _, err := io.CopyN(&text, from, piece); {
		case err == io.EOF:
			return text.Bytes(), t.parsing(text.Bytes())
		case err != nil:
			return nil, bodyError(err, t.m.JobBytes)
		}
	}
}

// parsing takes what reading a job needs.
func (t *taken) parsing(text []byte) error {
	cost, parts := jobfile.Cost(text)
	if most := readingBytes(t.m.JobBytes); t.bytes+cost > most {
		fit := float64(parts) * float64(most) / float64(t.bytes+cost)
		return &problemdetail.Error{Code: problemdetail.BodyTooLarge, Detail: fmt.Sprintf("its %d keys, values and items of lists would take about %d bytes of memory while they are read, and all jobs together may take %d (16 times limits.job_bytes, and at least 64 MiB): "+
			"about %.0f such parts fit; split the list of URIs: send the job with a part of it, or none, and the others to POST /api/v1/jobs/NAME/uris, one a line, as many as you like", parts, cost, most, fit)}
	}
	return t.take(cost)
}
