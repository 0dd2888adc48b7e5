//! Words that carry grammar rather than content, English and Spanish together: texts mix both, and
//! a stop word of one language is hardly ever a content word of the other. Those of the other languages
//! (`die`, `war`, `son`) count only in texts of their own. Accents are folded.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::language::Language;

const ENGLISH: &str = "a about above after again against all also am an and any are aren't as at be because been before \
being below between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each \
either else ever every few for from further get gets getting go goes going got had has hasn't have haven't having he \
he's her here hers herself him himself his how however i i'd i'll i'm i've if in into is isn't it it's its itself just \
let let's like made make many may me might mine more most much must my myself neither no nor not now of off on once one \
only or other our ours ourselves out over own per please quite rather really same she she's should shouldn't since so \
some still such than that that's the their theirs them themselves then there there's these they they're this those \
though through thus to too under until up upon us very via was wasn't we we'd we'll we're we've were weren't what what's \
when where whether which while who whom whose why will with within without won't would wouldn't yes yet you you'd you'll \
you're you've your yours yourself ok okay hi hello thanks thank dear regards etc one two three four five six seven eight nine ten first second several another around every new today tomorrow yesterday still done yeah lol everything nothing something anything everyone someone anyone thing things way lot lots bit";

const SPANISH: &str = "a al algo alguien algun alguna algunas alguno algunos ante antes aquel aquella aquellas aquello \
aquellos aqui asi aun aunque bajo bien cada casi como con contra cual cuales cualquier cuando cuanto de del demas desde \
donde dos durante e el ella ellas ellos en entonces entre era eran eres es esa esas ese eso esos esta estaba estaban \
estamos estan estar estas este esto estos estoy etc fue fueron ha haber habia habian hace hacer hacia han has hasta hay \
he hemos hola igual incluso ir la las le les lo los luego mas me mediante mi mia mias mientras mio mis mismo misma mucho \
muchos muy nada ni ningun ninguna ninguno no nos nosotros nuestra nuestras nuestro nuestros o os otra otras otro otros \
para pero poco por porque pues que quien quienes se sea sean segun ser si sido siempre sin sino sobre solo somos son soy \
su sus suya suyo tal tambien tampoco tan tanto te tener tengo ti tiene tienen toda todas todavia todo todos tras tu tus \
un una unas uno unos usted ustedes va vamos van varias varios vez voy vosotros vuestra vuestro y ya yo gracias saludos tuvo tuvieron tenia tenian tendra hizo hicieron pudo puede pueden podria dijo tres cuatro cinco seis siete ocho nueve diez primer primera primero segundo segunda nuevo nueva hoy ayer mañana jaja jajaja dale che lugar parte quiza quizas talvez";

const GERMAN: &str = "aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bereits bin bis bist bitte bleibt da dabei dadurch dafur damit danke dann daran darauf darf das dass davon dazu dein deine dem den denn der deren des dessen deshalb die dies diese diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines einige er es etwa etwas euch euer fur ganz gar gegen geht gibt hab habe haben hallo hat hatte hatten heute hier hin ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in ins ist ja jede jedem jeden jeder jedes jetzt jemand kann kannst kein keine keinen konnen konnte konnten liegen machen man mehr mein meine meinem meinen meiner mich mir mit morgen muss mussen nach nein nicht nichts noch nun nur ob oder ohne schon sehr sei sein seine seinem seinen seiner seit sich sie siehe sind so sobald soll sollen sollte sondern sowie statt uber um und uns unser unsere unserem unseren unserer unter viel viele vom von vor wann war waren warum was weil welche welcher wenn wer werde werden wie wieder will wir wird wo wurde wurden zu zum zur zwar zwei zwischen gruß grußen grusse freundlichen viele mfg herr frau neue neuen drei erste ersten uhr";

const FRENCH: &str = "a afin ai ainsi alors apres as au aucun aucune aujourd'hui aussi autre autres aux avant avec avoir avons bonjour car ce ceci cela celle celui ces cet cette ceux chaque chez comme comment cordialement d'un d'une dans de des deja depuis deux dix doit donc dont du elle elles en encore entre es est et etaient etait etant ete etre eu eux fait faire faut font il ils j'ai je jusqu la le les leur leurs lors lui ma mais me meme memes merci mes moi moins mon n'est ne ni non nos notre nous on ont ou par parce pas pendant peu peut peuvent plus plusieurs pour pourquoi qu'il qu'elle qu'on quand que quel quelle quels qui quoi sa salut sans se sera ses si sinon soit son sont sous sur ta te tes toi ton tous tout toute toutes tres trois tu un une va vers voici voila vos votre vous y s'il c'est nouveau nouvelle premier premiere";

const PORTUGUESE: &str = "ao aos aquela aquele as ate com como da das de dela dele depois do dos e ela elas ele eles em entre era essa esse esta este eu foi foram ha isso isto ja lhe mais mas me mesmo meu minha muito muita na nao nas nem no nos nossa nosso o os ou para pela pelo por porque quando que quem se sem ser seu seus so sua suas tambem te tem tinha um uma voce voces obrigado obrigada ola bom dia";

const ITALIAN: &str = "a ad agli ai al alla alle allo anche c'e che chi ci come con cosi cui da dagli dai dal dalla dei del della delle dello di dove e ed era erano essere fa gli ha hanno ho i il in io l'ho la le lei lo loro lui ma mi mia mio molto ne nei nel nella nelle no noi non o ogni per perche piu poi quale quando quello questa queste questi questo se sei senza si sia siamo solo sono sta su sua sue sui sul sulla suo tra tu tutti tutto un una uno vi voi grazie ciao";

fn all() -> &'static HashSet<&'static str, super::words::Fast> {
    static ALL: OnceLock<HashSet<&'static str, super::words::Fast>> = OnceLock::new();
    ALL.get_or_init(|| ENGLISH.split_whitespace().chain(SPANISH.split_whitespace()).collect())
}

fn of_language(language: Language) -> Option<&'static HashSet<&'static str, super::words::Fast>> {
    static ALL: OnceLock<[HashSet<&'static str, super::words::Fast>; 4]> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        [GERMAN, FRENCH, PORTUGUESE, ITALIAN].map(|words| words.split_whitespace().collect())
    });
    match language {
        Language::German => all.first(),
        Language::French => all.get(1),
        Language::Portuguese => all.get(2),
        Language::Italian => all.get(3),
        Language::English | Language::Spanish | Language::Undetermined => None,
    }
}

/// Whether a folded word carries no content in English or Spanish.
pub fn is_stop_word(folded: &str) -> bool {
    all().contains(folded)
}

/// Whether a folded word carries no content in a text of a language.
pub fn is_stop_word_in(language: Language, folded: &str) -> bool {
    is_stop_word(folded) || of_language(language).is_some_and(|words| words.contains(folded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_are_known() {
        assert!(is_stop_word("the") && is_stop_word("tambien") && !is_stop_word("invoice"));
        assert!(!is_stop_word("war") && is_stop_word_in(Language::German, "war"));
    }
}
