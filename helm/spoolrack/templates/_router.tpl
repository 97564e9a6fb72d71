{{/* The router: HAProxy in front of shards, which leads each call to the shard of its queue. */}}

{{/* The configuration of deploy/proxies/shards, for this number of shards, with TLS if there is any, and the pods as servers. */}}
{{- define "spoolrack.routerConfiguration" -}}
{{- $count := int .Values.shards -}}
{{- $tls := include "spoolrack.hasTls" . -}}
{{- $listen := ternary (printf "[%s]" .Values.server.listen) .Values.server.listen (contains ":" .Values.server.listen) -}}
{{- $doors := dict "grpc" 50051 "http" 8080 -}}
{{- $text := first (splitList "# The dashboard's files" (.Files.Get "files/haproxy.cfg")) -}}
{{- if .Values.sqs.enabled -}}
{{- $_ := set $doors "sqs" 9324 -}}
{{- else -}}
{{- $text = first (splitList "frontend sqs" $text) -}}
{{- $text = regexReplaceAll "(?m)^ *# A request of SQS.*\n.*tune.bufsize.*\n" $text "" -}}
{{- end -}}
{{- $text = replace "global\n" (printf "global\n    hard-stop-after %ds\n" (int .Values.drain.graceSeconds)) $text -}}
{{- $text = replace "mod(3)" (printf "mod(%d)" $count) $text -}}
{{- if $tls -}}
{{- $text = replace " proto h2\n" " proto h2 ssl crt /etc/haproxy-tls/tls.pem alpn h2\n" $text -}}
{{- $text = regexReplaceAll "(?m)^(    bind [0-9.]+:[0-9]+)$" $text "${1} ssl crt /etc/haproxy-tls/tls.pem" -}}
{{- end -}}
{{- replace "bind 0.0.0.0" (printf "bind %s" $listen) $text }}
frontend health
    bind {{ $listen }}:8081
    monitor-uri /-/health/ready

resolvers cluster
    parse-resolv-conf
    # A pod that starts again has another address.
    hold valid 5s

# The dashboard's files are the same in each shard: the first that is up has them.
backend dashboard
    balance first
    option redispatch 1
    retries 3
    default-server check fall 1 rise 1 observe layer4 error-limit 1 on-error mark-down
    {{- range $number := until $count }}
    {{ include "spoolrack.routed" (dict "root" $ "door" "http" "port" 8080 "number" $number) }}
    {{- end }}

# Any other backend has one server, without "check": no call may go to another shard.
{{- range $door, $port := $doors }}
{{- range $number := until $count }}
backend {{ $door }}{{ $number }}
    {{ include "spoolrack.routed" (dict "root" $ "door" $door "port" $port "number" $number) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A pod as a server of HAProxy. Call with (dict "root" $ "door" "http" "port" 8080 "number" 0). */}}
{{- define "spoolrack.routed" -}}
{{- $values := .root.Values -}}
{{- $host := include "spoolrack.podHost" . -}}
server shard{{ .number }} {{ $host }}.{{ $values.clusterDomain }}:{{ .port }} resolvers cluster init-addr none resolve-prefer {{ ternary "ipv6" "ipv4" (contains ":" $values.server.listen) }}
{{- if eq .door "grpc" }} proto h2{{ end }}
{{- if include "spoolrack.hasTls" .root }} ssl verify required ca-file {{ ternary "/etc/haproxy-tls/ca.crt" "@system-ca" (ne $values.tls.caKey "") }} sni str({{ $host }})
{{- if eq .door "grpc" }} alpn h2{{ end }}
{{- end -}}
{{- end -}}
