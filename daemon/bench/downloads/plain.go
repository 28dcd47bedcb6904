package downloads

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Plain is the baseline for the downloader, in a process of its own: net/http and no more. One
// goroutine for each download at once fetches pages; one writer appends the bodies to a file. A
// goroutine goes on when its body is synced; bodies that wait together share a sync. Plain prints a
// took.
func Plain(args []string) error {
	flags := flag.NewFlagSet("plain", flag.ContinueOnError)
	list := flags.String("uris", "", "`file` with a URI a line")
	dir := flags.String("out", "", "`folder` for the bodies")
	concurrency := flags.Int("concurrency", 1, "downloads at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*list)
	if err != nil {
		return err
	}
	uris := strings.Fields(string(text))
	f, err := os.Create(filepath.Join(*dir, "bodies"))
	if err != nil {
		return err
	}
	writes := make(chan write, *concurrency)
	written := make(chan struct{})
	go func() {
		defer close(written)
		appendAll(f, writes)
	}()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *concurrency}}
	next := make(chan string)
	errs := make(chan error, *concurrency)
	start := time.Now()
	var fetching sync.WaitGroup
	for range *concurrency {
		fetching.Go(func() {
			var failed error
			for uri := range next {
				if err := fetchPage(client, uri, writes); failed == nil {
					failed = err
				}
			}
			errs <- failed
		})
	}
	for _, uri := range uris {
		next <- uri
	}
	close(next)
	fetching.Wait()
	spent := time.Since(start)
	close(writes)
	close(errs)
	<-written
	err = f.Close()
	for e := range errs {
		err = errors.Join(err, e)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(took{Seconds: spent.Seconds(), Pages: len(uris)})
}

// took is the output of the processes that are measured beside the downloader.
type took struct {
	Seconds float64 `json:"seconds"`
	Pages   int     `json:"pages"`
}

// write is a page, with the channel on which its goroutine waits.
type write struct {
	uri  string
	body []byte
	done chan error
}

func fetchPage(client *http.Client, uri string, writes chan<- write) error {
	resp, err := client.Get(uri)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || len(body) != pageBytes {
		return fmt.Errorf("%s: %s, %d bytes", uri, resp.Status, len(body))
	}
	w := write{uri, body, make(chan error, 1)}
	writes <- w
	return <-w.done
}

// appendAll writes the pages that arrive, and syncs pages that arrived together only once.
func appendAll(f *os.File, writes <-chan write) {
	var buf bytes.Buffer
	for first := range writes {
		together := []write{first}
	gather:
		for {
			select {
			case w, ok := <-writes:
				if !ok {
					break gather
				}
				together = append(together, w)
			default:
				break gather
			}
		}
		buf.Reset()
		for _, w := range together {
			buf.Write(binary.BigEndian.AppendUint32(nil, uint32(len(w.uri))))
			buf.WriteString(w.uri)
			buf.Write(binary.BigEndian.AppendUint32(nil, uint32(len(w.body))))
			buf.Write(w.body)
		}
		_, err := f.Write(buf.Bytes())
		if err == nil {
			err = f.Sync()
		}
		for _, w := range together {
			w.done <- err
		}
	}
}
