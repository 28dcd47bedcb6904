package step

import (
	"context"
	"fmt"
)

// Voice receives what steps tell people while they run. Warnings are shown again at the
// end of the run.
type Voice func(text string, warning bool)

type voiceKey struct{}

// WithVoice gives the steps that run under the context a voice.
func WithVoice(ctx context.Context, v Voice) context.Context {
	return context.WithValue(ctx, voiceKey{}, v)
}

// Say tells people how far a step is: "apt: waiting for the lock that unattended-upgr
// holds". Without a voice the message is discarded.
func Say(ctx context.Context, format string, args ...any) { say(ctx, false, format, args...) }

// Warn tells people about something that they should see to but that stops nothing.
func Warn(ctx context.Context, format string, args ...any) { say(ctx, true, format, args...) }

func say(ctx context.Context, warning bool, format string, args ...any) {
	if v, ok := ctx.Value(voiceKey{}).(Voice); ok && v != nil {
		v(fmt.Sprintf(format, args...), warning)
	}
}
