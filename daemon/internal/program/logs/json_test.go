package logs

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestDurationsInJSONAreNumbers(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(NewJSONHandler(&out, slog.LevelInfo))
	log.Info("loaded", "took", 101*time.Millisecond, slog.Group("store", "waited", 1500*time.Microsecond))
	log.Debug("not shown")
	if got, want := strings.TrimSpace(out.String()), `"msg":"loaded","took_ms":101,"store":{"waited_ms":1.5}}`; !strings.HasSuffix(got, want) {
		t.Errorf("got %s, want it to end in %s", got, want)
	}
}
