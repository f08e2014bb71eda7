#!/usr/bin/env perl
# A trading agent in another language: POST /trading_action/, answers by the day; odd days are answered badly, each in another
# way.
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP;

my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 16, ReuseAddr => 1) or die "no socket: $!";
$| = 1;
print $server->sockport, "\n";
our $client_now;
my @faults = (
    sub { answer('{"recommended_action": "SHORT IT", "reasoning": "x"}') },
    sub { answer('{"reasoning": "no action"}') },
    sub { "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"recommended" },  # it stops in the middle
    sub { answer('{"recommended_action": {"BUY": 1}, "reasoning": ["x"]}') },
    sub { answer('{"recommended_action": 1, "reasoning": "BUY"}') },
    sub { answer('["BUY"]') },
    sub { answer('"BUY"') },
    sub { answer('{"recommended_action": "BUY", "reasoning": "x", "confidence": NaN}') },
    sub { answer('{"recommended_action": "SELL", "reasoning": "x", "recommended_action": "BUY"}') },
    sub { answer('{"recommended_action": "BUY", "reasoning": "x"}{"recommended_action": "SELL"}') },
    sub { answer('{"recommended_action": "BUY", "reasoning": "of another", "symbol": ["MSFT"]}') },
    sub { answer('{"recommended_action": "BUY", "reasoning": "of another", "symbol": "MSFT"}') },
    sub { answer("{\"recommended_action\": \"BUY\", \"reasoning\": \"no UTF-8 \xff\xfe\"}") },
    sub { answer('{"recommended_action": "BUY", "reasoning": "' . 'x' x (17 << 20) . '"}') },
    sub { answer('{"recommended_action": "BUY", "reasoning": ' . '[' x 200_000 . ']' x 200_000 . '}') },
    sub { "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nBUY!" },
    sub { "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n" },
    sub { "HTTP/1.1 422 Unprocessable\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 28\r\n\r\n{\"detail\": \"field required\"}" },
);
# Those of an agent that is down or slow, by number: /outages/N/trading_action/ fails so each day.
my @outages = (
    sub { "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 5\r\n\r\noops!" },
    sub { answer('<html>busy</html>') },
    sub { '' },                                                             # it hangs up
    sub { sleep 60; answer('{"recommended_action": "BUY", "reasoning": "too late"}') },
    sub { answer('{"error": "overloaded", "detail": "BUY later"}') },
    sub { "BUY\r\n" },
    sub { "HTTP/1.1 503 Busy\r\nConnection: close\r\nRetry-After: 100000\r\nContent-Length: 0\r\n\r\n" },
    sub { endless("7\r\n       \r\n" x 4096, 0) },   # chunks for ever, as fast as they go
    sub { endless("1\r\n \r\n", 0.2) },              # and so slowly that each read succeeds
);

sub endless {
    my ($chunk, $pause) = @_;
    local $SIG{PIPE} = sub { exit };
    print $client_now "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    while (print $client_now $chunk) { $client_now->flush; select(undef, undef, undef, $pause) if $pause }
    exit;
}

sub answer {
    my ($body) = @_;
    return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
}

while (my $client = $server->accept) {
    next if fork;
    $client_now = $client;
    my ($length, $line) = (0);
    my $outage;
    while (defined($line = <$client>) && $line !~ /^\r?\n$/) {
        $length = $1 if $line =~ /^content-length:\s*(\d+)/i;
        $outage = $1 if $line =~ m{^POST /outages/(\d+)/};
    }
    read($client, my $content, $length);
    my $asked = decode_json($content);
    my ($symbol) = @{ $asked->{symbol} };
    my ($day) = $asked->{date} =~ /(\d+)$/;
    my @path = @{ $asked->{history_price}{$symbol} || [] };
    my $rose = @path && $asked->{price}{$symbol} > $path[-1]{price};
    my $action = $rose ? 'buy' : 'SELL';
    my $good = answer(encode_json({ recommended_action => $action, reasoning => "$symbol closed " . ($rose ? 'up' : 'down') }));
    my $make = $day % 2 ? $faults[($day >> 1) % @faults] : sub { $good };
    $make = $outages[$outage] if defined $outage;
    print $client $make->();
    close $client;
    exit;
}
