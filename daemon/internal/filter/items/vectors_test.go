package items

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// TestSharedVectors reads the file by which the clients and the daemon agree on the bytes of
// every item: the canonical bytes of an accepted item, the error code of a refused one.
func TestSharedVectors(t *testing.T) {
	data, err := os.ReadFile("../../../../client/testdata/json_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, JSON, Canonical string
		String                bool
		ErrorCode             string `json:"error_code"`
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		l, err := decodeList(t, "["+v.JSON+"]", Limits{})
		var e *Error
		switch {
		case v.ErrorCode != "" && (!errors.As(err, &e) || e.Code != v.ErrorCode):
			t.Errorf("%s: error %v, want %s", v.Name, err, v.ErrorCode)
		case v.ErrorCode != "":
		case err != nil:
			t.Errorf("%s: %v", v.Name, err)
		case l.IsString(0) != v.String || string(l.Bytes(0)) != v.Canonical:
			t.Errorf("%s: string %t %q, want %t %q", v.Name, l.IsString(0), l.Bytes(0), v.String, v.Canonical)
		}
	}
	if len(vectors) < 80 {
		t.Errorf("%d vectors", len(vectors))
	}
}
