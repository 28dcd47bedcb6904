package crawl

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/frontier"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/warc"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/body"
)

// archiveDir holds the files of --warc.
const archiveDir = "warc"

// archive is an output that writes the WARC files of a crawl.
type archive struct{ w *warc.Writer }

func openArchive(dir, committed, agent string) (archive, error) {
	var at warc.Position
	if committed != "" {
		if err := json.Unmarshal([]byte(committed), &at); err != nil {
			return archive{}, err
		}
	}
	w, err := warc.Open(filepath.Join(dir, archiveDir), at, warc.Options{Info: [][2]string{{"software", agent}, {"format", "WARC File Format 1.1"}}})
	return archive{w}, err
}

func (a archive) Name() string { return archiveDir }

func (a archive) Append(o *frontier.Outcome) error {
	if !o.Stored {
		return nil
	}
	_, err := a.w.Append(o.Page.Data.(page).encoded)
	return err
}

func (a archive) Sync() (string, error) {
	at, err := a.w.Sync()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(at)
	return string(text), err
}

// archived encodes an answer for the archive. Of the request only what the crawl itself sets is known.
func (c *Crawl) archived(answer *fetch.Response, received []byte) (*warc.Encoded, error) {
	return warc.Encode(warc.Exchange{
		URI: answer.URI, Time: time.Now(), Remote: answer.Remote, Status: answer.Status, Header: answer.Header, Body: received,
		RequestHeader: http.Header{"User-Agent": {c.agent}, "Accept": {accept}, "Accept-Encoding": {body.Accepted}},
	})
}
