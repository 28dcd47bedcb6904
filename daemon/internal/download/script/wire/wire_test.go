package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
)

// The largest page that is parsed, with as many records as are stored, fits in a message, whatever is in them.
func TestLargestPageFits(t *testing.T) {
	records := json.RawMessage(`["` + strings.Repeat("<", script.MaxEmitted) + `"]`)
	sent := Down{Start: &Start{Text: strings.Repeat("&", script.MaxText), Page: &Page{Body: bytes.Repeat([]byte("<"), script.MaxPage), Records: records}}}
	var pipe bytes.Buffer
	if err := Write(&pipe, sent); err != nil {
		t.Fatal(err)
	}
	var got Down
	if err := Read(&pipe, &got); err != nil || pipe.Len() > 0 {
		t.Fatalf("%v, %d bytes are left", err, pipe.Len())
	}
	if got.Start == nil || !bytes.Equal(got.Start.Page.Records, records) || got.Start.Text != sent.Start.Text || !bytes.Equal(got.Start.Page.Body, sent.Start.Page.Body) {
		t.Error("another message came")
	}
}
