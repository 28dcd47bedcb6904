package master

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A job of many small parts, which take much more memory than the text, is refused before it is read; what calls
// take of the memory for all jobs is given back whatever becomes of them.
func TestMemoryOfJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.JobBytes = 1 << 20 })
	const good, small = `{"name":"a","uris":["http://h.example/1"]}`, "name: a\nuris: ["
	many := small + strings.Repeat("a,", 400_000) + "]"
	for _, path := range []string{"/api/v1/check", "/api/v1/jobs"} {
		r.want(413, "its 400024 keys, values and items of lists would take about 102406048 bytes of memory while they are read, and all jobs together may take 67108864 (16 times limits.job_bytes, and at least 64 MiB): about 259981 ", "POST", path, many)
		r.want(413, "split the list of URIs: send the job with a part of it, or none, and the others to POST /api/v1/jobs/NAME/uris", "POST", path, many)
		r.want(413, "limits.job_bytes", "POST", path, strings.Repeat("#", 2<<20))
		r.want(422, "uris[0]", "POST", path, small+strings.Repeat("a,", 1000)+"]")
	}
	r.want(200, `"uris":1`, "POST", "/api/v1/check", good)
	r.want(201, `"added":1`, "POST", "/api/v1/jobs", good)
	if used := r.master.reading.Used(); used != 0 {
		t.Errorf("%d bytes are taken, and nothing is read", used)
	}

	// Bodies that do not end take what they have sent, and no other call waits for them.
	rest := readingBytes(1<<20) - 2*piece
	r.master.reading.Take(rest)
	slow, sending := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		answer, err := http.Post(r.url+"/api/v1/check", "application/json", slow)
		if err != nil {
			t.Error(err)
			ended <- 0
			return
		}
		_ = answer.Body.Close()
		ended <- answer.StatusCode
	}()
	_, _ = io.WriteString(sending, good[:10])
	for began := time.Now(); r.master.reading.Used() == rest && time.Since(began) < 3*time.Minute; time.Sleep(time.Millisecond) {
	}
	status, text := r.do("POST", "/api/v1/check", strings.Repeat("#", 2*piece))
	if status != 503 || !strings.Contains(text, `"error_code":"overloaded"`) {
		t.Errorf("while another job has all memory: %d %s", status, text)
	}
	r.want(200, `"jobs"`, "GET", "/api/v1/jobs", "")
	r.master.reading.Give(rest)
	_, _ = io.WriteString(sending, good[10:])
	_ = sending.Close()
	if status := <-ended; status != 200 {
		t.Errorf("the slow one ends with %d", status)
	}
	r.want(200, `"uris":1`, "POST", "/api/v1/check", good)
}
